"""Endpoints of cars, users, groups, products, services, installations and brands."""
