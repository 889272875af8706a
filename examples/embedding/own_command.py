"""kube-scheduler's command with a plugin of one's own: all flags, and `OnePerTeam` beside the rest.

python own_command.py --config scheduler.yaml
"""

import sys

import moorage
from one_per_team import OnePerTeam

if __name__ == "__main__":
    command = moorage.scheduler_command(plugins=[OnePerTeam])
    sys.exit(command(sys.argv[1:]))
