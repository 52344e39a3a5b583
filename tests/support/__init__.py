"""What several tests share: small networks, a second decoder, a runner of command lines."""
