"""Where alerts go: `rr.alerts.webhook(…)`, `email`, `topic` and `sse`, for `stream.alert(…)`."""

from riverrun.alerts.channels import email, sse, topic, webhook

__all__ = ["email", "sse", "topic", "webhook"]
