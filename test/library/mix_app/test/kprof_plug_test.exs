defmodule Kprof.PlugTest do
  use ExUnit.Case

  # The calls of the functions that kprof exports by this process, as kprofd's tracing
  # sees them, and :sent where a callback of the test stands.
  setup do
    parent = self()
    tracer = spawn_link(fn -> collect(parent, []) end)
    :erlang.trace_pattern({:kprof, :_, :_}, [{:_, [], [{:return_trace}]}], [:local])
    :erlang.trace(self(), true, [:call, {:tracer, tracer}])
    %{tracer: tracer}
  end

  defp collect(parent, seen) do
    receive do
      {:trace, _, :call, {:kprof, f, args}} ->
        called = function_exported?(:kprof, f, length(args))
        collect(parent, if(called, do: [{f, args} | seen], else: seen))

      {:trace, _, :return_from, {:kprof, f, _}, value} when f in [:run] -> collect(parent, [{:returned, value} | seen])
      {:trace, _, :return_from, _, _} -> collect(parent, seen)
      {:get, ref} -> send(parent, {ref, Enum.reverse(seen)})
      other -> collect(parent, [other | seen])
    end
  end

  defp seen(tracer) do
    :erlang.trace(self(), false, [:call])
    delivered = :erlang.trace_delivered(self())
    receive do: ({:trace_delivered, _, ^delivered} -> :ok)
    ref = make_ref()
    send(tracer, {:get, ref})
    receive do: ({^ref, seen} -> seen)
  end

  defp conn, do: %Plug.Conn{method: "POST", request_path: "/users/7"}

  test "as a plug: set where it stands, cleared before the answer is sent", %{tracer: tracer} do
    opts = Kprof.Plug.init([])

    conn =
      conn()
      |> Plug.Conn.register_before_send(fn conn -> send(tracer, :earlier) && conn end)
      |> Kprof.Plug.call(opts)

    assert conn == %{conn() | before_send: conn.before_send}
    assert %{state: :sent} = Plug.Conn.send_resp(conn)
    seen = seen(tracer)
    assert [set_token: [{"POST", "/users/7"}], clear_token: []] = Enum.reject(seen, &(&1 == :earlier))
    assert :earlier in seen
  end

  test "around a whole endpoint, the framework's part included", %{tracer: tracer} do
    conn = conn()
    result = MixApp.Endpoint.call(conn, :show)
    assert result == %{conn | state: :sent, log: [:show, :framework]}
    assert [{:run, [{"POST", "/users/7"}, fun, [^conn, :show]]}, {:returned, ^result}] = seen(tracer)
    assert is_function(fun, 2)
  end

  test "an exception passes as it is", %{tracer: tracer} do
    try do
      MixApp.Endpoint.call(conn(), :raise)
      flunk("raised nothing")
    rescue
      e in RuntimeError ->
        assert e.message == "/users/7"
        assert [{MixApp, :handle, 2, _} | _] = __STACKTRACE__
    end

    assert [{:run, [{"POST", "/users/7"}, _, _]}] = seen(tracer)
  end
end
