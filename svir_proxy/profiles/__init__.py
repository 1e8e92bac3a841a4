"""What is known about each server, as data: the schema, the loader, and one YAML file a server."""

from svir_proxy.profiles.loader import ProfileError, builtin_names, load_profile, profile_files
from svir_proxy.profiles.schema import Fact, Profile

__all__ = ["Fact", "Profile", "ProfileError", "builtin_names", "load_profile", "profile_files"]
