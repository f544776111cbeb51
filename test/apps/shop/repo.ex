defmodule Shop.Repo do
  @moduledoc "The database: a pool of connections, and what can be asked over one."

  use Supervisor
  alias Shop.Repo.{Connection, Pool}

  @timeout 5_000

  def start_link(opts), do: Supervisor.start_link(__MODULE__, opts, name: __MODULE__)

  @impl true
  def init(opts) do
    connections =
      for n <- 1..opts[:size] do
        Supervisor.child_spec({Connection, opts[:port]}, id: {Connection, n})
      end

    Supervisor.init([Pool | connections], strategy: :rest_for_one)
  end

  @doc "The row with this key, or nil."
  def get(table, key), do: query({:get, table, key})

  @doc "All rows in which `field` has this value."
  def all(table, field, value), do: query({:all, table, field, value})

  @doc "All rows in which `field` has this text in it."
  def search(table, field, text), do: query({:search, table, field, text})

  def insert(table, key, row), do: query({:insert, table, key, row})

  def delete(table, key), do: query({:delete, table, key})

  @doc "What `fun` does with a connection of its own is done as a whole."
  def transaction(fun) do
    with_connection(fn connection ->
      :ok = Connection.query(connection, :begin, @timeout)

      try do
        result = fun.(&Connection.query(connection, &1, @timeout))
        :ok = Connection.query(connection, :commit, @timeout)
        {:ok, result}
      catch
        :throw, {:rollback, reason} ->
          :ok = Connection.query(connection, :rollback, @timeout)
          {:error, reason}
      end
    end)
  end

  def rollback(reason), do: throw({:rollback, reason})

  defp query(query) do
    with_connection(&Connection.query(&1, query, @timeout))
  end

  defp with_connection(fun) do
    connection = Pool.checkout(@timeout)

    try do
      fun.(connection)
    after
      Pool.checkin(connection)
    end
  end
end

defmodule Shop.Repo.Pool do
  @moduledoc "Lends connections, to one process at a time, in the order in which they are asked for."

  use GenServer

  def start_link(_), do: GenServer.start_link(__MODULE__, [], name: __MODULE__)

  def checkout(timeout), do: GenServer.call(__MODULE__, :checkout, timeout)
  def checkin(connection), do: GenServer.cast(__MODULE__, {:checkin, connection})
  def join(connection), do: GenServer.cast(__MODULE__, {:join, connection})

  @impl true
  def init(_), do: {:ok, %{free: [], waiting: :queue.new(), lent: %{}}}

  @impl true
  def handle_call(:checkout, from, %{free: []} = state) do
    {:noreply, %{state | waiting: :queue.in(from, state.waiting)}}
  end

  def handle_call(:checkout, {pid, _}, %{free: [connection | free]} = state) do
    {:reply, connection, lend(%{state | free: free}, connection, pid)}
  end

  @impl true
  def handle_cast({:join, connection}, state), do: {:noreply, free(state, connection)}

  def handle_cast({:checkin, connection}, state) do
    {ref, lent} = Map.pop(state.lent, connection)
    if ref, do: Process.demonitor(ref, [:flush])
    {:noreply, free(%{state | lent: lent}, connection)}
  end

  @impl true
  def handle_info({:DOWN, ref, :process, _, _}, state) do
    case Enum.find(state.lent, fn {_, r} -> r == ref end) do
      {connection, _} -> {:noreply, free(%{state | lent: Map.delete(state.lent, connection)}, connection)}
      nil -> {:noreply, state}
    end
  end

  defp free(state, connection) do
    case :queue.out(state.waiting) do
      {{:value, {pid, _} = from}, waiting} ->
        GenServer.reply(from, connection)
        lend(%{state | waiting: waiting}, connection, pid)

      {:empty, _} ->
        %{state | free: [connection | state.free]}
    end
  end

  defp lend(state, connection, pid) do
    %{state | lent: Map.put(state.lent, connection, Process.monitor(pid))}
  end
end

defmodule Shop.Repo.Connection do
  @moduledoc "One connection to the database; a query is a term, and so is its answer."

  use GenServer

  def start_link(port), do: GenServer.start_link(__MODULE__, port)

  def query(connection, query, timeout), do: GenServer.call(connection, {:query, query}, timeout)

  @impl true
  def init(port) do
    {:ok, socket} = :gen_tcp.connect({127, 0, 0, 1}, port, [:binary, packet: 4, active: false, nodelay: true])
    Shop.Repo.Pool.join(self())
    {:ok, socket}
  end

  @impl true
  def handle_call({:query, query}, _from, socket) do
    :ok = :gen_tcp.send(socket, encode(query))
    {:ok, answer} = :gen_tcp.recv(socket, 0)
    {:reply, decode(answer), socket}
  end

  defp encode(query), do: :erlang.term_to_iovec(query)
  defp decode(answer), do: :erlang.binary_to_term(answer)
end
