{application, shop, [
    {description, "A small shop"},
    {vsn, "1.0.0"},
    {modules, ['Elixir.Shop', 'Elixir.Shop.Cache', 'Elixir.Shop.Carts', 'Elixir.Shop.Catalog',
               'Elixir.Shop.Catalog.Product', 'Elixir.Shop.Mailer', 'Elixir.Shop.Money',
               'Elixir.Shop.Orders', 'Elixir.Shop.Orders.Order', 'Elixir.Shop.Payments',
               'Elixir.Shop.Payments.Client', 'Elixir.Shop.Repo', 'Elixir.Shop.Repo.Connection',
               'Elixir.Shop.Repo.Pool', 'Elixir.Shop.Web', 'Elixir.Shop.Web.CartController',
               'Elixir.Shop.Web.CheckoutController', 'Elixir.Shop.Web.Conn',
               'Elixir.Shop.Web.Endpoint', 'Elixir.Shop.Web.JSON',
               'Elixir.Shop.Web.ProductController', 'Elixir.Shop.Web.Router',
               'Elixir.Shop.Web.Session', 'Elixir.Shop.Web.View']},
    {registered, ['Elixir.Shop.Supervisor', 'Elixir.Shop.Cache', 'Elixir.Shop.Repo', 'Elixir.Shop.Repo.Pool',
                  'Elixir.Shop.Mailer', 'Elixir.Shop.Tasks']},
    {applications, [kernel, stdlib, crypto, elixir, logger, eex, cowboy]},
    {mod, {'Elixir.Shop', []}},
    {env, []}
]}.
