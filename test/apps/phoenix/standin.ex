# Stand-ins for Phoenix, LiveView, Plug, Ecto, DBConnection, Oban and Broadway: modules
# of the same names, whose functions have the same names, arities and arguments, call each other in
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
  # The options of a query are between these and those of the repository, which are in
  # the order of its configuration.
  def execute(%{pid: pool, opts: default_opts}, query, params, opts) do
    opts = [log: &log/1, source: "users", cast_params: params] ++ opts ++ default_opts

    {:ok, _, rows} =
      if opts[:prepare],
        do: DBConnection.prepare_execute(pool, query, params, opts),
        else: DBConnection.execute(pool, query, params, opts)

    {length(rows), rows}
  end

  defp log(entry), do: entry
end

defmodule Ecto.Repo.Queryable do
  def all(name, queryable, tuplet), do: execute(:all, name, queryable, tuplet) |> elem(1)

  def update_all(name, queryable, updates, tuplet) do
    execute(:update_all, name, Map.put(queryable, :updates, updates), tuplet)
  end

  defp execute(_operation, _name, %{from: %{source: {_, _}}} = query, {adapter_meta, opts}) do
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

  def insert_all(_repo, _name, schema, rows, {adapter_meta, opts}) when is_atom(schema) do
    {_, _} = adapter_meta.adapter.execute(adapter_meta, rows, [], opts)
    {length(rows), nil}
  end

  defp write(what, _repo, _name, %{valid?: true, data: %{__meta__: _}} = changeset, {adapter_meta, opts}) do
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

# Processes that stay: each message is a request. A LiveView begins with the message
# with which a channel is joined.
defmodule Phoenix.LiveView.Channel do
  use GenServer

  def start(view), do: GenServer.start(__MODULE__, view)
  def init(view), do: {:ok, view}

  def handle_info({Phoenix.Channel, _auth, from, _socket}, view) do
    {:ok, state} = verified_mount(%{view: view}, %{}, %{}, "/", %{}, from, %{}, %{})
    send(from, :joined)
    {:noreply, state}
  end

  def handle_info(%{event: "event", payload: %{"event" => event}}, %{socket: %{view: view}} = state) do
    :ok = view.handle_event(event)
    {:noreply, render_diff(state, state.socket, false)}
  end

  def handle_info({:ping, from}, state) do
    send(from, :pong)
    {:noreply, state}
  end

  defp verified_mount(%{view: view}, _config, _route, _url, _params, _from, _socket, _info) do
    :ok = view.mount()
    {:ok, %{socket: %{view: view}}}
  end

  defp render_diff(state, socket, _force) do
    true = socket.view != nil
    state
  end
end

defmodule Phoenix.Channel.Server do
  use GenServer

  def start(channel), do: GenServer.start(__MODULE__, channel)
  def init(channel), do: {:ok, channel}

  def handle_info({Phoenix.Channel, _auth, from, %{channel: channel} = socket}, _) do
    :ok = channel.join()
    send(from, :joined)
    {:noreply, socket}
  end

  def handle_info(%{event: event}, %{channel: channel} = socket) do
    :ok = channel.handle_in(event)
    {:noreply, socket}
  end

  def handle_info({:ping, from}, socket) do
    send(from, :pong)
    {:noreply, socket}
  end
end

defmodule Oban.Queue.Executor do
  # A queue fetches the jobs that are to run, and says so in them, before it calls this.
  def call(%{job: %{worker: worker}} = exec) do
    :ok = Module.concat([worker]).perform(exec.job)
    exec
  end
end

defmodule Broadway.Topology.ProcessorStage do
  # Of GenStage, which calls it in the stage's process, for messages that were sent to it.
  def handle_events(messages, _from, %{module: module} = state) do
    Enum.each(messages, &(:ok = module.handle_message(&1)))
    {:noreply, [], state}
  end
end
