defmodule Kprof.MixProject do
  use Mix.Project

  def project do
    [
      app: :kprof,
      version: "0.1.0",
      elixir: "~> 1.11",
      # By name, for agent/ below is no part of the library; which the
      # compilers for grammars, not needed here, do not understand.
      erlc_paths: ["kprof.erl", "kprof_cowboy_middleware.erl", "kprof_cowboy_stream.erl"],
      compilers: [:erlang, :elixir, :app],
      deps: []
    ]
  end

  def application, do: []
end
