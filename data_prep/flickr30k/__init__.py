"""Flickr30k."""
