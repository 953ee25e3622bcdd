"""What the compiler does about the process around it: cycle collector, threads and forks, replaced builtins, torch's global modes."""
