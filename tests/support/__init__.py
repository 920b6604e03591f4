"""What tests share: oracles, small federations, made runs, Flower clients, a browser."""
