defmodule MixApp.Endpoint do
  use MixApp.Framework
  use Kprof.Plug
end

defmodule MixApp do
  def handle(conn, :raise), do: raise("#{conn.request_path}")
  def handle(conn, opts), do: Plug.Conn.send_resp(%{conn | log: [opts | conn.log]})
end
