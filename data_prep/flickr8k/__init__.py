"""Flickr8k."""
