"""Tests of the room that reads settings."""
