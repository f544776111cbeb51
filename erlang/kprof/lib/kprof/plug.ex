defmodule Kprof.Plug do
  @moduledoc """
  Marks the requests of a Plug application for kprofd.

  As a plug, from where it stands to just before the answer is sent:

      plug Kprof.Plug

      {entry, {kprof, set_token, 1}}.

  Around a whole plug, a `Plug.Router` or a Phoenix endpoint, answer included;
  write it after `use Phoenix.Endpoint`, `use Plug.Router` or `use Plug.Builder`:

      use Kprof.Plug

      {entry, {kprof, run, 3}}.

  Prefer the second: it ends with `call/2`, however that ends, where the first
  never ends for an answer that is not sent. Use one of them, not both. Either
  way the identity is `{method, path}`:

      {identity, fun ({kprof, _, [{Method, Path} | _]}) -> {Method, Path} end}.
      {rewrite, [{"/[0-9]+", "/:id"}]}.

  Plug itself is called at run time only: this module compiles without it.
  """

  # The behaviour is Plug, which no attribute names: the compiler warns where
  # it cannot find it.
  @compile {:no_warn_undefined, Plug.Conn}

  def init(opts), do: opts

  def call(conn, _opts) do
    :kprof.set_token(identity(conn))

    Plug.Conn.register_before_send(conn, fn conn ->
      :kprof.clear_token()
      conn
    end)
  end

  defmacro __using__(_opts) do
    quote do
      @before_compile Kprof.Plug
    end
  end

  defmacro __before_compile__(_env) do
    quote do
      defoverridable call: 2

      def call(conn, opts) do
        :kprof.run(Kprof.Plug.identity(conn), fn conn, opts -> super(conn, opts) end, [conn, opts])
      end
    end
  end

  @doc "What kind of request this is: its method and path."
  def identity(%{method: method, request_path: path}), do: {method, path}
end
