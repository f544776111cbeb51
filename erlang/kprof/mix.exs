defmodule Kprof.MixProject do
  use Mix.Project

  def project do
    [app: :kprof, version: "0.1.0", elixir: "~> 1.11", deps: []]
  end

  def application, do: []
end
