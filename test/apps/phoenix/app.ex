# A small application on the stand-ins, that counts what it does by itself.

defmodule MyApp.Repo do
  def all(table), do: Ecto.Repo.Queryable.all(__MODULE__, query(table), meta("all " <> table, select: true))
  def touch(table), do: Ecto.Repo.Queryable.update_all(__MODULE__, query(table), [], meta("update_all " <> table, []))

  def insert(table) do
    changeset = %{valid?: true, data: %{__meta__: %{source: table}}}
    Ecto.Repo.Schema.insert(__MODULE__, __MODULE__, changeset, meta("insert " <> table, prepare: true))
  end

  def insert_all(schema, rows) do
    Ecto.Repo.Schema.insert_all(__MODULE__, __MODULE__, schema, rows, meta("insert_all " <> inspect(schema), []))
  end

  defp query(table), do: %{from: %{source: {table, MyApp.Row}}}

  defp meta(query, opts) do
    Apps.Count.add({:query, query})
    {%{
       adapter: Ecto.Adapters.SQL,
       pid: :persistent_term.get(DBConnection.ConnectionPool),
       opts: options(opts[:select])
     }, opts}
  end

  # As of ecto_sql 3.12.1 on, and as before it.
  defp options(true), do: [{:pool, DBConnection.ConnectionPool} | options()]
  defp options(nil), do: options() ++ [pool: DBConnection.ConnectionPool]
  defp options, do: [repo: MyApp.Repo, timeout: 5000, pool_size: 4]
end

defmodule MyAppWeb.UserHTML do
  def index(assigns), do: ["users: ", inspect(assigns.users)]
  def layout(assigns), do: ["<html>", assigns.inner, "</html>"]
end

defmodule MyAppWeb.UserController do
  import Plug.Conn

  def init(action), do: action
  def call(conn, action), do: apply(__MODULE__, action, [conn, conn.private])

  def index(conn, _) do
    users = MyApp.Repo.all("users")
    inner = Phoenix.Template.render(MyAppWeb.UserHTML, "index", "html", users: users)
    body = Phoenix.Template.render_to_iodata(MyAppWeb.UserHTML, "layout", "html", inner: inner)
    send_resp(conn, 200, body)
  end

  # With a query in a task, as preloads do.
  def show(conn, _) do
    task = Task.async(fn -> MyApp.Repo.all("posts") end)
    [user] = MyApp.Repo.all("users")
    json(conn, %{user: user, posts: Task.await(task)})
  end

  def create(conn, _) do
    {:ok, user} = MyApp.Repo.insert("users")
    json(conn, user)
  end

  def update(conn, _) do
    {1, _} = MyApp.Repo.touch("users")
    send_resp(conn, 204, "")
  end

  def fail(_conn, _), do: raise("on purpose")

  defp json(conn, data), do: send_resp(conn, 200, Jason.encode_to_iodata!(data))
end

defmodule MyAppWeb.CartLive do
  def mount, do: :ok

  def handle_event("add") do
    {2, nil} = MyApp.Repo.insert_all(MyApp.Item, [%{}, %{}])
    :ok
  end

  def handle_event("remove"), do: :ok
end

defmodule MyAppWeb.RoomChannel do
  def join, do: :ok

  def handle_in("new_msg") do
    {:ok, _} = MyApp.Repo.insert("messages")
    :ok
  end
end

defmodule MyApp.Mailer do
  def perform(_job) do
    [_ | _] = MyApp.Repo.all("users")
    :ok
  end
end

defmodule MyApp.Pipeline do
  def handle_message(_), do: :ok
end

defmodule MyAppWeb.Endpoint do
  # What a controller raises is caught here, some frames up.
  def call(conn, router) do
    try do
      plugs(conn, router)
    catch
      :error, reason -> {:error, reason}
    end
  end

  defp plugs(conn, router) do
    case router.(conn) do
      %Plug.Conn{} = conn -> conn
    end
  end
end

defmodule Apps.Count do
  def start do
    parent = self()

    spawn(fn ->
      :ets.new(__MODULE__, [:named_table, :public])
      send(parent, :counts)
      Process.sleep(:infinity)
    end)

    receive do: (:counts -> true)
  end

  def add(key), do: :ets.update_counter(__MODULE__, key, 1, {key, 0})
end

defmodule MyApp do
  @routes [
    {"GET", "/users", :index},
    {"GET", "/users/:id", :show},
    {"POST", "/users", :create},
    {"PATCH", "/users/:id", :update},
    {"GET", "/fail", :fail}
  ]

  def start do
    Apps.Count.start()
    DBConnection.ConnectionPool.start(4)
    true
  end

  # Requests without end, for a proposal.
  def load(clients) do
    for c <- 1..clients, do: spawn(fn -> Enum.each(Stream.iterate(0, &(&1 + 1)), &request(c, &1)) end)
    true
  end

  # So many requests by each of some clients, one after the other, with calls of
  # the router in both its forms. Gives how often each route was asked for.
  def work(clients, requests) do
    :ets.delete_all_objects(Apps.Count)

    1..clients
    |> Enum.map(fn c -> Task.async(fn -> Enum.each(1..requests, &request(c, &1)) end) end)
    |> Task.await_many(60_000)

    Enum.each(1..3, fn _ -> stay(10) end)
    Map.new(:ets.tab2list(Apps.Count))
  end

  # What is not a request of HTTP: a LiveView, a channel, jobs and messages of Broadway.
  defp stay(n) do
    joined(Phoenix.LiveView.Channel.start(MyAppWeb.CartLive), MyAppWeb.CartLive, fn live, i ->
      event = Enum.at(["add", "remove"], rem(i, 2))
      Apps.Count.add("MyAppWeb.CartLive " <> event)
      send(live, %{event: "event", payload: %{"event" => event}})
    end, "mount", n)

    joined(Phoenix.Channel.Server.start(MyAppWeb.RoomChannel), MyAppWeb.RoomChannel, fn room, _ ->
      Apps.Count.add("MyAppWeb.RoomChannel new_msg")
      send(room, %{event: "new_msg"})
    end, "join", n)

    for i <- 1..n do
      Apps.Count.add("job MyApp.Mailer")

      # Every other one is over midnight; the others over the turn of a month, or were not
      # fetched by a queue.
      {scheduled, attempted} =
        case rem(i, 4) do
          1 -> {~U[2026-12-31 23:59:58.000500Z], ~U[2027-01-01 00:00:01.500000Z]}
          3 -> {~U[2026-12-31 23:59:58.000500Z], nil}
          _ -> {~U[2026-11-29 23:59:58.000500Z], ~U[2026-11-30 00:00:01.500000Z]}
        end

      job = %{worker: "MyApp.Mailer", scheduled_at: scheduled, attempted_at: attempted}
      exec = Task.await(Task.async(fn -> Oban.Queue.Executor.call(%{job: job}) end))
      Apps.Count.add("MyApp.Pipeline handle_message")
      state = %{module: MyApp.Pipeline}
      {:noreply, [], ^state} = Broadway.Topology.ProcessorStage.handle_events([exec], self(), state)
    end
  end

  # Of a process that stays: it is joined, gets n messages, and stops when it has had them.
  defp joined({:ok, pid}, module, message, how, n) do
    name = inspect(module)
    Apps.Count.add(name <> " " <> how)
    send(pid, {Phoenix.Channel, %{}, self(), %{channel: module}})
    receive do: (:joined -> :ok)
    Enum.each(1..n, &message.(pid, &1))
    Apps.Count.add(name <> " handle_info")
    send(pid, {:ping, self()})
    receive do: (:pong -> GenServer.stop(pid))
  end

  # Each in a process of its own, as with cowboy.
  defp request(client, n) do
    {method, route, action} = Enum.at(@routes, rem(n * 7 + client, length(@routes)))
    Apps.Count.add(method <> " " <> route)
    path = String.replace(route, ":id", Integer.to_string(n))
    {pid, ref} = spawn_monitor(fn -> serve(method, path, route, action, rem(n, 2)) end)
    receive do: ({:DOWN, ^ref, :process, ^pid, _} -> :ok)
    # Four clients stay below what is sampled.
    Process.sleep(8)
  end

  defp serve(method, path, route, action, form) do
    conn = %Plug.Conn{method: method, request_path: path, owner: self()}

    metadata = %{conn: nil, route: route, plug: MyAppWeb.UserController, plug_opts: action,
                 path_params: %{}, log: :debug, pipe_through: [:browser]}

    prepare = fn conn, %{path_params: params} -> %{conn | private: Map.put(conn.private, :params, params)} end
    pipeline = fn conn -> %{conn | assigns: %{user: nil}} end
    plug = {MyAppWeb.UserController, action}

    MyAppWeb.Endpoint.call(conn, fn conn ->
      case form do
        0 -> Phoenix.Router.__call__(conn, metadata, prepare, pipeline, plug)
        1 -> Phoenix.Router.__call__(conn, {metadata, prepare, pipeline, plug})
      end
    end)
  end
end
