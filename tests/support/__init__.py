"""What tests share: recorded cases, a scripted upstream, a running proxy, and the judge of an answer."""
