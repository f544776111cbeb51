defmodule Shop.Catalog do
  @moduledoc "What there is to buy."

  alias Shop.{Cache, Repo}

  defmodule Product do
    defstruct [:id, :name, :category, :price, :text]
  end

  @front_page_ms 500
  @product_ms 2_000

  def list_featured do
    Cache.fetch(:featured, @front_page_ms, fn ->
      "products" |> Repo.all(:category, "featured") |> Enum.map(&to_product/1) |> Enum.sort_by(& &1.name)
    end)
  end

  def get_product(id) do
    Cache.fetch({:product, id}, @product_ms, fn ->
      case Repo.get("products", id) do
        nil -> nil
        row -> to_product(row)
      end
    end)
  end

  def search(text) do
    "products"
    |> Repo.search(:name, text)
    |> Enum.map(&to_product/1)
    |> Enum.sort_by(&rank(&1, text), :desc)
    |> Enum.take(20)
  end

  defp rank(product, text), do: String.jaro_distance(String.downcase(product.name), text)

  defp to_product(row), do: struct!(Product, row)
end

defmodule Shop.Carts do
  @moduledoc "What a visitor is going to buy: quantities by product."

  alias Shop.{Catalog, Repo}

  @most 20

  def get_cart(visitor) do
    Repo.get("carts", visitor) || %{}
  end

  def add_item(visitor, product_id, quantity) do
    case Catalog.get_product(product_id) do
      nil ->
        {:error, :no_such_product}

      product ->
        cart = get_cart(visitor) |> Map.update(product.id, quantity, &min(&1 + quantity, @most))
        :ok = Repo.insert("carts", visitor, cart)
        {:ok, cart}
    end
  end

  def clear(visitor), do: Repo.delete("carts", visitor)

  @doc "The cart with its products and prices."
  def priced(cart) do
    for {id, quantity} <- cart, product = Catalog.get_product(id) do
      {product, quantity, product.price * quantity}
    end
  end
end

defmodule Shop.Orders do
  @moduledoc "Turns a cart into an order."

  alias Shop.{Carts, Mailer, Payments, Repo}

  defmodule Order do
    defstruct [:id, :visitor, :items, :total, :payment]
  end

  def place(visitor) do
    lines = visitor |> Carts.get_cart() |> Carts.priced()

    with :ok <- not_empty(lines),
         order = new_order(visitor, lines),
         {:ok, payment} <- Payments.charge(order.id, order.total),
         {:ok, order} <- store(%{order | payment: payment}) do
      Mailer.deliver_confirmation(order)
      {:ok, order}
    end
  end

  defp not_empty([]), do: {:error, :empty_cart}
  defp not_empty(_), do: :ok

  defp new_order(visitor, lines) do
    %Order{
      id: Base.encode16(:crypto.strong_rand_bytes(8)),
      visitor: visitor,
      items: for({product, quantity, _} <- lines, do: {product.name, quantity}),
      total: lines |> Enum.map(&elem(&1, 2)) |> Enum.sum()
    }
  end

  defp store(order) do
    Repo.transaction(fn query ->
      :ok = query.({:insert, "orders", order.id, Map.from_struct(order)})
      :ok = query.({:delete, "carts", order.visitor})
      order
    end)
  end
end

defmodule Shop.Payments do
  @moduledoc "Charges customers, by a provider."

  alias Shop.Payments.Client

  @tries 2

  def charge(reference, cents) when cents > 0, do: charge(reference, cents, @tries)

  defp charge(_, _, 0), do: {:error, :payment_unavailable}

  defp charge(reference, cents, tries) do
    body = "reference=#{reference}&amount=#{cents}&signature=#{sign(reference, cents)}"

    case Client.post("/charges", body) do
      {:ok, 200, answer} -> {:ok, answer}
      {:ok, 402, _} -> {:error, :declined}
      _ -> charge(reference, cents, tries - 1)
    end
  end

  defp sign(reference, cents) do
    :crypto.mac(:hmac, :sha256, "a secret", "#{reference}:#{cents}") |> Base.encode16()
  end
end

defmodule Shop.Payments.Client do
  @moduledoc "HTTP to the provider, a connection for each request."

  @timeout 5_000

  def post(path, body) do
    port = Application.fetch_env!(:shop, :payments_port)

    with {:ok, socket} <- :gen_tcp.connect({127, 0, 0, 1}, port, [:binary, packet: :http_bin, active: false], @timeout) do
      try do
        :ok = :gen_tcp.send(socket, request(path, body))
        receive_answer(socket)
      after
        :gen_tcp.close(socket)
      end
    end
  end

  defp request(path, body) do
    "POST #{path} HTTP/1.1\r\nhost: payments\r\ncontent-length: #{byte_size(body)}\r\nconnection: close\r\n\r\n#{body}"
  end

  defp receive_answer(socket) do
    with {:ok, {:http_response, _, status, _}} <- :gen_tcp.recv(socket, 0, @timeout),
         {:ok, length} <- receive_headers(socket, 0),
         :ok = :inet.setopts(socket, packet: :raw),
         {:ok, body} <- :gen_tcp.recv(socket, length, @timeout) do
      {:ok, status, body}
    end
  end

  defp receive_headers(socket, length) do
    case :gen_tcp.recv(socket, 0, @timeout) do
      {:ok, {:http_header, _, :"Content-Length", _, value}} -> receive_headers(socket, String.to_integer(value))
      {:ok, {:http_header, _, _, _, _}} -> receive_headers(socket, length)
      {:ok, :http_eoh} -> {:ok, length}
      {:error, _} = error -> error
    end
  end
end
