# Stand-ins for Phoenix, Plug, Ecto and DBConnection: modules of the same names,
# whose functions have the same names, arities and arguments, call each other in
# the same way, and use processes, messages and tables where the real ones do;
# so that phoenix.conf can be tested where these packages cannot be had.

defmodule Plug.Conn do
  defstruct method: "GET", request_path: "/", path_info: [], host: "localhost",
            adapter: {nil, nil}, owner: nil, private: %{}, assigns: %{}, halted: false,
            state: :unset, status: nil, resp_body: nil

  def send_resp(conn, status, body) do
    send_resp(%{conn | status: status, resp_body: body, state: :set})
  end

  def send_resp(%Plug.Conn{state: :set, owner: owner} = conn) do
    send(owner, {:plug_conn, :sent})
    %{conn | state: :sent, resp_body: nil}
  end

  def send_file(conn, status, _file, _offset \\ 0, _length \\ :all) do
    send(conn.owner, {:plug_conn, :sent})
    %{conn | status: status, state: :file}
  end

  def chunk(conn, _body), do: {:ok, conn}
end

defmodule Jason do
  def encode_to_iodata!(input, opts \\ []) do
    case encode(input, opts) do
      {:ok, result} -> result
      {:error, error} -> raise error
    end
  end

  defp encode(input, _opts), do: {:ok, inspect(input)}
end

defmodule Phoenix.Template do
  def render_to_iodata(module, template, format, assigns) do
    module |> render(template, format, assigns) |> encode(format)
  end

  def render(module, template, _format, assigns) do
    assigns = Map.new(assigns)
    apply(module, String.to_existing_atom(template), [assigns])
  end

  defp encode(content, _format), do: [content, ?\n]
end

defmodule DBConnection.Holder do
  # As in db_connection: the caller gets an ETS table of the pool's, by a message
  # that carries no token.
  def checkout(pool, callers, opts) do
    timeout = Keyword.get(opts, :timeout, 5000)

    case ask(pool, callers, timeout) do
      {:ok, _, _} = ok -> ok
      other -> other
    end
  end

  defp ask(pool, [caller | _], timeout) do
    ref = Process.monitor(pool)
    send(pool, {:db_connection, {caller, ref}})

    receive do
      {:"ETS-TRANSFER", table, ^pool, ^ref} ->
        Process.demonitor(ref, [:flush])
        {:ok, table, pool}
    after
      timeout -> {:error, :timeout}
    end
  end

  def checkin(table, pool), do: :ets.give_away(table, pool, :checkin)

  # A call of the driver, with the connection that was checked out.
  def handle({_pool, _table}, fun, args, _opts) do
    Process.sleep(2)
    {:ok, {fun, args}}
  end
end

defmodule DBConnection.ConnectionPool do
  def start(size) do
    pool =
      spawn(fn ->
        loop(for(_ <- 1..size, do: :ets.new(:holder, [:public])), :queue.new())
      end)

    :persistent_term.put(__MODULE__, pool)
    pool
  end

  def checkout(pool, callers, opts) do
    DBConnection.Holder.checkout(pool, callers, opts)
  end

  defp loop(free, waiting) do
    receive do
      {:db_connection, {from, ref}} -> serve(free, :queue.in({from, ref}, waiting))
      {:"ETS-TRANSFER", table, _, :checkin} -> serve([table | free], waiting)
    end
  end

  defp serve([table | more] = free, waiting) do
    case :queue.out(waiting) do
      {{:value, {from, ref}}, rest} ->
        :ets.give_away(table, from, ref)
        serve(more, rest)

      {:empty, _} ->
        loop(free, waiting)
    end
  end

  defp serve([], waiting), do: loop([], waiting)
end

defmodule DBConnection do
  def execute(pool, query, params, opts \\ []) do
    result = with {:ok, result} <- run(pool, query, params, opts), do: {:ok, query, result}
    log(result)
  end

  def prepare_execute(pool, query, params, opts \\ []) do
    result = with {:ok, result} <- run(pool, query, params, opts), do: {:ok, query, result}
    log(result)
  end

  defp run(pool, query, _params, opts) do
    {:ok, table, ^pool} = DBConnection.ConnectionPool.checkout(pool, [self()], opts)
    {:ok, _} = DBConnection.Holder.handle({pool, table}, :handle_execute, [query], opts)
    DBConnection.Holder.checkin(table, pool)
    {:ok, [[query]]}
  end

  defp log(result), do: result
end

defmodule Ecto.Adapters.SQL do
  def execute(%{pid: pool}, query, params, opts) do
    {:ok, _, rows} =
      if opts[:prepare],
        do: DBConnection.prepare_execute(pool, query, params, opts),
        else: DBConnection.execute(pool, query, params, opts)

    {length(rows), rows}
  end
end

defmodule Ecto.Repo.Queryable do
  def all(name, queryable, tuplet), do: execute(:all, name, queryable, tuplet) |> elem(1)

  def update_all(name, queryable, updates, tuplet) do
    execute(:update_all, name, {queryable, updates}, tuplet)
  end

  defp execute(_operation, _name, query, {adapter_meta, opts}) do
    case opts[:select] do
      nil ->
        adapter_meta.adapter.execute(adapter_meta, query, [], opts)

      _ ->
        {count, rows} = adapter_meta.adapter.execute(adapter_meta, query, [], opts)
        {count, Enum.map(rows, &List.to_tuple/1)}
    end
  end
end

defmodule Ecto.Repo.Schema do
  def insert(repo, name, changeset, tuplet), do: write(:insert, repo, name, changeset, tuplet)
  def update(repo, name, changeset, tuplet), do: write(:update, repo, name, changeset, tuplet)
  def delete(repo, name, changeset, tuplet), do: write(:delete, repo, name, changeset, tuplet)

  def insert_all(_repo, _name, _schema, rows, {adapter_meta, opts}) do
    {_, _} = adapter_meta.adapter.execute(adapter_meta, rows, [], opts)
    {length(rows), nil}
  end

  defp write(what, _repo, _name, %{valid?: true} = changeset, {adapter_meta, opts}) do
    {_, _} = adapter_meta.adapter.execute(adapter_meta, what, [], opts)
    {:ok, changeset}
  end

  defp write(_, _, _, changeset, _), do: {:error, changeset}
end

defmodule Phoenix.Router do
  # The form of 1.6.
  def __call__(conn, {metadata, prepare, pipeline, plug}) do
    routed(conn, metadata, prepare, pipeline, plug)
  end

  # That of 1.7 and 1.8.
  def __call__(conn, metadata, prepare, pipeline, plug) do
    routed(conn, metadata, prepare, pipeline, plug)
  end

  defp routed(conn, metadata, prepare, pipeline, {plug, opts}) do
    conn = prepare.(conn, metadata)
    start = System.monotonic_time()

    case pipeline.(conn) do
      %Plug.Conn{halted: true} = halted ->
        halted

      %Plug.Conn{} = piped ->
        try do
          plug.call(piped, plug.init(opts))
        else
          conn ->
            true = System.monotonic_time() >= start
            conn
        catch
          kind, reason -> :erlang.raise(kind, reason, __STACKTRACE__)
        end
    end
  end
end
