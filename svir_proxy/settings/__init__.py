"""The proxy's configuration: YAML file, environment and command line, checked as a whole before anything starts."""

from svir_proxy.settings.auth import AuthKey, AuthSettings, KeyLimits
from svir_proxy.settings.backend import Backend, Timeouts, unchanged
from svir_proxy.settings.cautions import cautions
from svir_proxy.settings.inspector import InspectorSettings
from svir_proxy.settings.load import configuration_files, load_settings
from svir_proxy.settings.metrics import MetricsSettings
from svir_proxy.settings.model import (
    LimitSettings,
    LoggingSettings,
    RoutingSettings,
    ServerSettings,
    Settings,
    StreamingSettings,
)
from svir_proxy.settings.problems import SettingsError
from svir_proxy.settings.rules import AnswerRule, RuleSettings
from svir_proxy.settings.sources import find_config
from svir_proxy.settings.tracing import TracingSettings

__all__ = [
    "AnswerRule",
    "AuthKey",
    "AuthSettings",
    "Backend",
    "InspectorSettings",
    "KeyLimits",
    "LimitSettings",
    "LoggingSettings",
    "MetricsSettings",
    "RoutingSettings",
    "RuleSettings",
    "ServerSettings",
    "Settings",
    "SettingsError",
    "StreamingSettings",
    "Timeouts",
    "TracingSettings",
    "cautions",
    "configuration_files",
    "find_config",
    "load_settings",
    "unchanged",
]
