# As Phoenix.Endpoint does it: it defines call/2, and before the module is
# compiled makes it overridable and wraps it.
defmodule MixApp.Framework do
  defmacro __using__(_) do
    quote do
      def call(conn, opts), do: MixApp.handle(conn, opts)
      @before_compile MixApp.Framework
    end
  end

  defmacro __before_compile__(_) do
    quote do
      defoverridable call: 2
      def call(conn, opts), do: super(%{conn | log: [:framework | conn.log]}, opts)
    end
  end
end
