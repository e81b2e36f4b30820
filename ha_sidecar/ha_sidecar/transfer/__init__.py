"""The AutoSwitchHA wire protocol: codecs and machines that take bytes and ticks, without I/O."""
