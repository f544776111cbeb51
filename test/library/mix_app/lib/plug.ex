# A stand-in for Plug, which Debian has no package of: as much of its
# documented contract as Kprof.Plug relies on. Callbacks of
# register_before_send/2 take the connection and return it; the last that was
# registered runs first; they run once, before the answer is sent.
defmodule Plug.Conn do
  defstruct method: "GET", request_path: "/", state: :unset, before_send: [], log: []

  def register_before_send(%{state: :unset} = conn, callback) when is_function(callback, 1) do
    %{conn | before_send: [callback | conn.before_send]}
  end

  def send_resp(%{state: :unset} = conn) do
    conn = Enum.reduce(conn.before_send, conn, fn callback, conn -> %Plug.Conn{} = callback.(conn) end)
    %{conn | state: :sent}
  end
end
