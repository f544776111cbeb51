# A service in Elixir on cowboy, as small as shows its names: structs, a protocol
# with two implementations and another's, a GenServer, operators, names that need
# quotes, and anonymous functions.

defmodule Kiosk.Money do
  @moduledoc "Amounts are in cents; `<~>` adds them."

  defstruct cents: 0

  def %__MODULE__{cents: a} <~> %__MODULE__{cents: b}, do: %__MODULE__{cents: a + b}
end

defimpl String.Chars, for: Kiosk.Money do
  def to_string(%{cents: cents}), do: "#{div(cents, 100)}.#{cents |> rem(100) |> Integer.to_string() |> String.pad_leading(2, "0")}"
end

defprotocol Kiosk.Priced do
  @doc "What it costs."
  def price(thing)
end

defmodule Kiosk.Item do
  defstruct [:name, :price]
end

defmodule Kiosk.Bundle do
  @moduledoc "Items that are sold together, for a tenth less."

  defstruct items: []
end

defimpl Kiosk.Priced, for: Kiosk.Item do
  def price(%{price: price}), do: price
end

defimpl Kiosk.Priced, for: Kiosk.Bundle do
  import Kiosk.Money

  def price(%{items: items}) do
    sum = Enum.reduce(items, %Kiosk.Money{}, fn item, sum -> sum <~> Kiosk.Priced.price(item) end)
    %{sum | cents: div(sum.cents * 9, 10)}
  end
end

defmodule Kiosk.Cart do
  @moduledoc "Carts, by customer: one process has them all."

  use GenServer
  import Kiosk.Money
  alias Kiosk.Priced

  def start_link(_), do: GenServer.start_link(__MODULE__, %{}, name: __MODULE__)

  def add(customer, thing), do: GenServer.call(__MODULE__, {:add, customer, thing})
  def things(customer), do: GenServer.call(__MODULE__, {:things, customer})

  def forget, do: GenServer.call(__MODULE__, :forget)

  def empty?(customer), do: things(customer) == []

  def total(customer) do
    customer
    |> things()
    |> Enum.map(fn thing -> Priced.price(thing) end)
    |> Enum.reduce(%Kiosk.Money{}, fn price, sum -> sum <~> price end)
  end

  # As code that is generated has them.
  def unquote(:"thank you")(customer), do: "thank you, #{customer}"

  @impl true
  def init(carts), do: {:ok, carts}

  @impl true
  def handle_call({:add, customer, thing}, _from, carts) do
    things = [thing | Map.get(carts, customer, [])] |> Enum.take(8)
    {:reply, length(things), Map.put(carts, customer, things)}
  end

  def handle_call(:forget, _from, _carts), do: {:reply, true, %{}}
  def handle_call({:things, customer}, _from, carts), do: {:reply, Map.get(carts, customer, []), carts}
end

defmodule Kiosk.Web do
  @moduledoc "Cowboy's handler of all routes; the route's name is its state."

  @behaviour :cowboy_handler
  alias Kiosk.{Bundle, Cart, Item, Money}

  @pen %Item{name: "pen", price: %Money{cents: 190}}
  @pad %Item{name: "pad", price: %Money{cents: 455}}

  def child_spec(_) do
    routes = [
      {"/carts/:customer", __MODULE__, :show},
      {"/carts/:customer/items/:name", __MODULE__, :add},
      {"/carts/:customer/checkout", __MODULE__, :checkout},
      {"/fail", __MODULE__, :fail}
    ]

    options = %{env: %{dispatch: :cowboy_router.compile([{:_, routes}])}, max_keepalive: :infinity}
    %{id: __MODULE__, start: {:cowboy, :start_clear, [__MODULE__, [ip: {127, 0, 0, 1}, port: 0], options]}}
  end

  @impl true
  def init(req, route) do
    {status, body} = answer(route, :cowboy_req.binding(:customer, req), req)
    {:ok, :cowboy_req.reply(status, %{"content-type" => "text/plain"}, body, req), route}
  end

  def answer(:show, customer, _req) do
    if Cart.empty?(customer), do: {404, "nothing"}, else: {200, to_string(Cart.total(customer))}
  end

  def answer(:add, customer, req) do
    {201, customer |> Cart.add(thing(:cowboy_req.binding(:name, req))) |> to_string()}
  end

  def answer(:checkout, customer, _req) do
    {200, [Cart."thank you"(customer), ": ", to_string(Cart.total(customer))]}
  end

  def answer(:fail, _customer, _req), do: raise(ArgumentError, "as it was asked to")

  defp thing("pen"), do: @pen
  defp thing("pad"), do: @pad
  defp thing("set"), do: %Bundle{items: [@pen, @pad, @pad]}
end

defmodule Kiosk do
  @moduledoc "Starts it; `port/0` is where it listens."

  def run do
    {:ok, _} = Application.ensure_all_started(:cowboy)

    # The process that starts the node ends; this one stays.
    spawn(fn ->
      {:ok, _} = Supervisor.start_link([Kiosk.Cart, Kiosk.Web], strategy: :one_for_one, name: Kiosk.Supervisor)
      Process.sleep(:infinity)
    end)

    :ok
  end

  def port, do: :ranch.get_port(Kiosk.Web)
end
