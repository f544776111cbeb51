defmodule Shop do
  @moduledoc """
  A small shop: a catalogue, carts and a checkout, on cowboy.

  Its database and the provider of its payments are other servers, on the local
  host; their ports are in the environment of the application.
  """

  use Application

  @impl true
  def start(_type, _args) do
    children = [
      Shop.Cache,
      {Shop.Repo, size: 8, port: Application.fetch_env!(:shop, :database_port)},
      Shop.Mailer,
      {Task.Supervisor, name: Shop.Tasks},
      Shop.Web
    ]

    Supervisor.start_link(children, strategy: :one_for_one, name: Shop.Supervisor)
  end

  @doc "From the command line: `-s Elixir.Shop run`."
  def run, do: {:ok, _} = Application.ensure_all_started(:shop)
end

defmodule Shop.Cache do
  @moduledoc "Values that may be some seconds old, in a table that everybody reads."

  use GenServer

  def start_link(_), do: GenServer.start_link(__MODULE__, [], name: __MODULE__)

  @doc "The value of `key`, which `fun` makes if there is none or it is older than `ttl_ms`."
  def fetch(key, ttl_ms, fun) do
    now = System.monotonic_time(:millisecond)

    case :ets.lookup(__MODULE__, key) do
      [{_, value, until}] when until > now ->
        value

      _ ->
        value = fun.()
        true = :ets.insert(__MODULE__, {key, value, now + ttl_ms})
        value
    end
  end

  def forget(key), do: :ets.delete(__MODULE__, key)

  @impl true
  def init(_) do
    :ets.new(__MODULE__, [:named_table, :public, read_concurrency: true])
    Process.send_after(self(), :sweep, 10_000)
    {:ok, []}
  end

  @impl true
  def handle_info(:sweep, state) do
    now = System.monotonic_time(:millisecond)
    :ets.select_delete(__MODULE__, [{{:_, :_, :"$1"}, [{:<, :"$1", now}], [true]}])
    Process.send_after(self(), :sweep, 10_000)
    {:noreply, state}
  end
end

defmodule Shop.Mailer do
  @moduledoc "Sends mail, some time; here it only writes it."

  use GenServer
  alias Shop.Orders.Order

  def start_link(_), do: GenServer.start_link(__MODULE__, [], name: __MODULE__)

  def deliver_confirmation(%Order{} = order), do: GenServer.cast(__MODULE__, {:confirm, order})

  @impl true
  def init(_), do: {:ok, 0}

  @impl true
  def handle_cast({:confirm, order}, sent) do
    _ = body(order) |> IO.iodata_length()
    {:noreply, sent + 1}
  end

  defp body(order) do
    [
      "Thank you for order #{order.id}.\n",
      for({product, quantity} <- order.items, do: "#{quantity} x #{product}\n"),
      "Total: #{Shop.Money.format(order.total)}\n"
    ]
  end
end

defmodule Shop.Money do
  @moduledoc "Amounts are integers, in cents."

  def format(cents), do: "#{div(cents, 100)}.#{cents |> rem(100) |> Integer.to_string() |> String.pad_leading(2, "0")}"
end
