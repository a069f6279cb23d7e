# SPDX-License-Identifier: Apache-2.0
. /run/guest/lib.sh
about modules; modprobe nvme-tcp
about discover; nvme discover -t tcp -a $HOST -s $port
about connect; nvme connect -t tcp -a $HOST -s $port -n $nqn
nvme list
step hello there
