"""The models of requests and answers: for each thing a module of requests, and one of answers."""
