"""The words of requests and answers: a module for what is asked about each thing, and one for what is answered."""
