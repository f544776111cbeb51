defmodule Shop.Web do
  @moduledoc "The HTTP listener."

  def child_spec(_) do
    dispatch = :cowboy_router.compile([{:_, [{:_, Shop.Web.Endpoint, []}]}])

    %{
      id: __MODULE__,
      start:
        {:cowboy, :start_clear,
         [__MODULE__, [ip: {127, 0, 0, 1}, port: 0], %{env: %{dispatch: dispatch}, max_keepalive: :infinity}]}
    }
  end

  def port, do: :ranch.get_port(__MODULE__)
end

defmodule Shop.Web.Conn do
  @moduledoc "A request, and what is to be answered."

  defstruct [:method, :path, :req, params: %{}, visitor: nil, status: nil, type: "text/html", body: ""]

  def html(conn, status \\ 200, body), do: %{conn | status: status, type: "text/html", body: body}

  def json(conn, status \\ 200, term) do
    %{conn | status: status, type: "application/json", body: Shop.Web.JSON.encode(term)}
  end
end

defmodule Shop.Web.Endpoint do
  @moduledoc "From cowboy's request to an answer."

  @behaviour :cowboy_handler
  alias Shop.Web.{Conn, Router, Session, View}
  require Logger

  @most_bytes 10_000

  @impl true
  def init(req, state) do
    {conn, req} = conn(req)
    conn = conn |> Session.fetch() |> answer()
    req = Session.put(conn, req)
    {:ok, :cowboy_req.reply(conn.status, %{"content-type" => conn.type}, conn.body, req), state}
  end

  defp conn(req) do
    {params, req} = params(req)

    conn = %Conn{
      method: :cowboy_req.method(req),
      path: req |> :cowboy_req.path() |> String.split("/", trim: true),
      params: params,
      req: req
    }

    {conn, req}
  end

  defp params(req) do
    query = Map.new(:cowboy_req.parse_qs(req))

    if :cowboy_req.has_body(req) do
      {:ok, form, req} = :cowboy_req.read_urlencoded_body(req, %{length: @most_bytes})
      {Map.merge(query, Map.new(form)), req}
    else
      {query, req}
    end
  end

  defp answer(conn) do
    Router.call(conn)
  rescue
    error ->
      Logger.error(Exception.format(:error, error, __STACKTRACE__))
      Conn.html(conn, 500, View.render(:error, %{status: 500}))
  end
end

defmodule Shop.Web.Session do
  @moduledoc "Who a visitor is: a signed cookie."

  @secret "another secret"

  def fetch(conn) do
    cookies = :cowboy_req.parse_cookies(conn.req)

    with {_, cookie} <- List.keyfind(cookies, "visitor", 0),
         [id, mac] <- String.split(cookie, "."),
         ^mac <- sign(id) do
      %{conn | visitor: id}
    else
      _ -> %{conn | visitor: Base.encode16(:crypto.strong_rand_bytes(8))}
    end
  end

  def put(conn, req) do
    :cowboy_req.set_resp_cookie("visitor", "#{conn.visitor}.#{sign(conn.visitor)}", req, %{path: "/", http_only: true})
  end

  defp sign(id), do: :crypto.mac(:hmac, :sha256, @secret, id) |> Base.encode16(case: :lower)
end

defmodule Shop.Web.Router do
  @moduledoc "Which controller answers."

  alias Shop.Web.{CartController, CheckoutController, Conn, ProductController, View}

  def call(conn), do: route(conn.method, conn.path, conn)

  defp route("GET", [], conn), do: ProductController.index(conn, conn.params)
  defp route("GET", ["search"], conn), do: ProductController.search(conn, conn.params)
  defp route("GET", ["products", id], conn), do: ProductController.show(conn, Map.put(conn.params, "id", id))
  defp route("GET", ["api", "products", id], conn), do: ProductController.api(conn, Map.put(conn.params, "id", id))
  defp route("GET", ["cart"], conn), do: CartController.show(conn, conn.params)
  defp route("POST", ["cart", "items"], conn), do: CartController.add(conn, conn.params)
  defp route("POST", ["checkout"], conn), do: CheckoutController.create(conn, conn.params)
  defp route(_, _, conn), do: Conn.html(conn, 404, View.render(:error, %{status: 404}))
end

defmodule Shop.Web.ProductController do
  import Shop.Web.Conn
  alias Shop.Catalog
  alias Shop.Web.View

  def index(conn, _params) do
    html(conn, View.render(:index, %{title: "Shop", products: Catalog.list_featured()}))
  end

  def search(conn, params) do
    text = params |> Map.get("q", "") |> String.downcase()
    html(conn, View.render(:index, %{title: "Found", products: Catalog.search(text)}))
  end

  def show(conn, %{"id" => id}) do
    case Catalog.get_product(id) do
      nil -> html(conn, 404, View.render(:error, %{status: 404}))
      product -> html(conn, View.render(:product, %{product: product}))
    end
  end

  def api(conn, %{"id" => id}) do
    case Catalog.get_product(id) do
      nil -> json(conn, 404, %{error: "not found"})
      product -> json(conn, Map.from_struct(product))
    end
  end
end

defmodule Shop.Web.CartController do
  import Shop.Web.Conn
  alias Shop.Carts
  alias Shop.Web.View

  def show(conn, _params) do
    lines = conn.visitor |> Carts.get_cart() |> Carts.priced()
    html(conn, View.render(:cart, %{lines: lines}))
  end

  def add(conn, params) do
    with {quantity, ""} when quantity > 0 <- Integer.parse(params["quantity"] || "1"),
         {:ok, cart} <- Carts.add_item(conn.visitor, params["product"], quantity) do
      json(conn, 201, cart)
    else
      {:error, reason} -> json(conn, 422, %{error: reason})
      _ -> json(conn, 400, %{error: "quantity"})
    end
  end
end

defmodule Shop.Web.CheckoutController do
  import Shop.Web.Conn
  alias Shop.Orders
  alias Shop.Web.View

  def create(conn, _params) do
    case Orders.place(conn.visitor) do
      {:ok, order} -> html(conn, 201, View.render(:order, %{order: order}))
      {:error, :empty_cart} -> html(conn, 409, View.render(:error, %{status: 409}))
      {:error, :declined} -> html(conn, 402, View.render(:error, %{status: 402}))
      {:error, _} -> html(conn, 503, View.render(:error, %{status: 503}))
    end
  end
end

defmodule Shop.Web.View do
  @moduledoc "Pages, from templates that are compiled."

  require EEx

  @layout """
  <!doctype html><html><head><title><%= @title %></title></head>
  <body><nav><a href="/">Shop</a> <a href="/cart">Cart</a></nav><%= @inner %></body></html>
  """

  @index """
  <h1><%= @title %></h1><ul><%= for p <- @products do %>
  <li><a href="/products/<%= p.id %>"><%= escape(p.name) %></a> <%= Shop.Money.format(p.price) %></li><% end %></ul>
  """

  @product """
  <h1><%= escape(@product.name) %></h1><p><%= Shop.Money.format(@product.price) %></p>
  <div><%= for part <- String.split(@product.text, "\\n") do %><p><%= escape(part) %></p><% end %></div>
  """

  @cart """
  <table><%= for {p, quantity, price} <- @lines do %>
  <tr><td><%= escape(p.name) %></td><td><%= quantity %></td><td><%= Shop.Money.format(price) %></td></tr><% end %></table>
  """

  @order """
  <h1>Thank you</h1><p>Order <%= @order.id %>, <%= Shop.Money.format(@order.total) %></p>
  """

  EEx.function_from_string(:defp, :layout, @layout, [:assigns])
  EEx.function_from_string(:defp, :index, @index, [:assigns])
  EEx.function_from_string(:defp, :product, @product, [:assigns])
  EEx.function_from_string(:defp, :cart, @cart, [:assigns])
  EEx.function_from_string(:defp, :order, @order, [:assigns])
  EEx.function_from_string(:defp, :error, "<h1><%= @status %></h1>", [:assigns])

  def render(template, assigns) do
    layout(%{title: Map.get(assigns, :title, "Shop"), inner: inner(template, assigns)})
  end

  defp inner(:index, assigns), do: index(assigns)
  defp inner(:product, assigns), do: product(assigns)
  defp inner(:cart, assigns), do: cart(assigns)
  defp inner(:order, assigns), do: order(assigns)
  defp inner(:error, assigns), do: error(assigns)

  defp escape(text) do
    text
    |> String.replace("&", "&amp;")
    |> String.replace("<", "&lt;")
    |> String.replace(">", "&gt;")
  end
end

defmodule Shop.Web.JSON do
  @moduledoc "Terms as JSON."

  def encode(map) when is_map(map) do
    ["{", map |> Enum.map(fn {k, v} -> [string(to_string(k)), ":", encode(v)] end) |> Enum.intersperse(","), "}"]
  end

  def encode(list) when is_list(list), do: ["[", list |> Enum.map(&encode/1) |> Enum.intersperse(","), "]"]
  def encode(nil), do: "null"
  def encode(true), do: "true"
  def encode(false), do: "false"
  def encode(number) when is_integer(number), do: Integer.to_string(number)
  def encode(atom) when is_atom(atom), do: string(Atom.to_string(atom))
  def encode(text) when is_binary(text), do: string(text)

  defp string(text), do: [?", text |> String.to_charlist() |> Enum.map(&char/1), ?"]

  defp char(?"), do: "\\\""
  defp char(?\\), do: "\\\\"
  defp char(?\n), do: "\\n"
  defp char(c) when c < 32, do: :io_lib.format("\\u~4.16.0b", [c])
  defp char(c), do: <<c::utf8>>
end
