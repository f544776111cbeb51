defmodule MixApp.MixProject do
  use Mix.Project

  def project do
    [app: :mix_app, version: "1.0.0", deps: [{:kprof, path: System.fetch_env!("KPROF")}]]
  end

  def application, do: []
end
