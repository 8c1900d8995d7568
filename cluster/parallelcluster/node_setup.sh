#!/usr/bin/env bash
# Prepares a node of an AWS ParallelCluster (Ubuntu 22.04 or 24.04): OnNodeConfigured of cluster.yaml and queues/*.yaml
# runs it as root on every node, once.
#
#   node_setup.sh --exporter S3_URL --exporter-sha256 SUM [--monitoring vX.Y --monitoring-sha256 SUM]
#
# every node    the packages an Echelon program needs; PMIx and Slurm are looked at
# head node     compilers too; a timer that turns runs' metrics.jsonl into a metrics file (metrics_textfile.py,
#               fetched from --exporter)
# --monitoring  installs that release of aws-samples/aws-parallelcluster-monitoring
#
# What does not come from the distribution's signed archive is fetched by name and must have the given SHA-256.
# Exit codes: 0 done, 2 usage, 3 environment; anything but 0 makes ParallelCluster replace the node. Running it again is
# harmless. Its output is in /var/log/chef-client.log or cloud-init-output.log.
set -euo pipefail

readonly EXIT_USAGE=2 EXIT_ENVIRONMENT=3

# The lib*-dev packages are named the same in every release, unlike the libraries (libicu72, libicu74, ...) that they
# bring; tools/packages.sh has the same list, and a test compares them.
readonly LIBRARY_PACKAGES=(libhdf5-dev libyaml-cpp-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libsentencepiece-dev
  libpcre2-dev libicu-dev zlib1g-dev libzstd-dev libjpeg-dev libpng-dev libgtest-dev libgmock-dev libbenchmark-dev
  libpmix-dev libopenmpi-dev openmpi-bin)
readonly COMPILER_PACKAGES=(g++ cmake ninja-build ccache pkg-config python3 python3-venv git)

readonly RUNS=/fsx/runs
readonly METRICS_FILE=/var/lib/prometheus/node-exporter/echelon.prom
readonly EXPORTER_PROGRAM=/usr/local/lib/echelon/metrics_textfile.py
readonly MONITORING_FOLDER=/opt/aws-parallelcluster-monitoring
readonly MONITORING_ARCHIVES=https://github.com/aws-samples/aws-parallelcluster-monitoring/archive/refs/tags

die() {
  local code=$1
  shift
  echo "node_setup.sh: $*" >&2
  exit "$code"
}

say() { echo "node_setup.sh: $*"; }

exporter='' exporter_sha256='' monitoring='' monitoring_sha256=''
while (($#)); do
  case $1 in
    --exporter | --exporter-sha256 | --monitoring | --monitoring-sha256) ;;
    *) die $EXIT_USAGE "unknown option '$1'" ;;
  esac
  (($# >= 2)) || die $EXIT_USAGE "$1 has no value"
  case $1 in
    --exporter) exporter=$2 ;;
    --exporter-sha256) exporter_sha256=$2 ;;
    --monitoring) monitoring=$2 ;;
    --monitoring-sha256) monitoring_sha256=$2 ;;
  esac
  shift 2
done
[[ $exporter =~ ^s3://[a-z0-9.-]+/[A-Za-z0-9._/-]+$ ]] || die $EXIT_USAGE "--exporter '$exporter': expected s3://BUCKET/NAME"
[[ $exporter_sha256 =~ ^[0-9a-f]{64}$ ]] || die $EXIT_USAGE "--exporter-sha256 '$exporter_sha256': expected 64 hexadecimal digits"
if [[ -n $monitoring$monitoring_sha256 ]]; then
  [[ $monitoring =~ ^v[0-9]+(\.[0-9]+){1,2}$ ]] || die $EXIT_USAGE "--monitoring '$monitoring': expected a release like v2.10"
  [[ $monitoring_sha256 =~ ^[0-9a-f]{64}$ ]] ||
    die $EXIT_USAGE "--monitoring-sha256 '$monitoring_sha256': expected 64 hexadecimal digits"
fi

((EUID == 0)) || die $EXIT_ENVIRONMENT "must run as root"
[[ -r /etc/parallelcluster/cfnconfig ]] ||
  die $EXIT_ENVIRONMENT "/etc/parallelcluster/cfnconfig is missing: this is not a node of an AWS ParallelCluster"
# Says what kind of node this is. Not sourced: it would set variables of its own choice here.
node_type=$(sed -n 's/^cfn_node_type=//p' /etc/parallelcluster/cfnconfig | tr -d "\"'")

# A freshly started node shares its mirror and NAT with many others, and unattended upgrades hold apt's lock.
with_retries() {
  local try
  for try in 1 2 3 4 5; do
    if "$@"; then return 0; fi
    say "'$1 ${2:-}' failed (try $try of 5)"
    sleep $((try * 10))
  done
  return 1
}

apt() { DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=300 "$@"; }

install_packages() {
  local states
  if states=$(dpkg-query -W -f '${db:Status-Status}\n' "$@" 2>/dev/null) && ! grep -qvx installed <<<"$states"; then
    return
  fi
  with_retries apt update
  with_retries apt install --no-install-recommends "$@" ||
    die $EXIT_ENVIRONMENT "apt could not install packages; does this subnet reach the internet (NAT gateway)?"
}

# check_sum FILE SHA256
check_sum() {
  local sum
  sum=$(sha256sum "$1" | cut -d ' ' -f 1)
  [[ $sum == "$2" ]] || die $EXIT_ENVIRONMENT "$(basename "$1") has SHA-256 $sum, expected $2: not used"
}

# Slurm's and PMIx's versions are known to quarrel in one combination, which hangs in PMIx_Init (openpmix#3645).
look_at_pmix() {
  local pmix slurm
  slurm=$(/opt/slurm/bin/sinfo --version 2>/dev/null | cut -d ' ' -f 2) || slurm=unknown
  pmix=$(/opt/pmix/bin/pmix_info --version 2>/dev/null | grep -om1 '[0-9]\+\.[0-9]\+\.[0-9]\+') || pmix=unknown
  say "Slurm $slurm, PMIx $pmix"
  case $pmix in
    5.0.8 | 5.0.9)
      if [[ $(printf '%s\n' "$slurm" 25.11.2 | sort -V | head -n 1) != 25.11.2 ]]; then
        say "warning: Slurm $slurm with PMIx $pmix may hang at the start of a job; run 'echelon doctor bootstrap' in one"
      fi
      ;;
  esac
}

install_exporter() {
  local folder
  folder=$(mktemp -d)
  with_retries aws s3 cp --only-show-errors "$exporter" "$folder/metrics_textfile.py" ||
    die $EXIT_ENVIRONMENT "cannot fetch $exporter; render.py says how to upload it, and HeadNode/Iam/S3Access must name its bucket"
  check_sum "$folder/metrics_textfile.py" "$exporter_sha256"
  install -D -m 755 "$folder/metrics_textfile.py" "$EXPORTER_PROGRAM"
  rm -r "$folder"
  mkdir -p "$(dirname "$METRICS_FILE")"
  cat >/etc/systemd/system/echelon-metrics.service <<UNIT
[Unit]
Description=Newest metrics of Echelon runs as a Prometheus text file

[Service]
Type=oneshot
ExecStart=$EXPORTER_PROGRAM --runs $RUNS --output $METRICS_FILE
TimeoutStartSec=25
NoNewPrivileges=yes
ProtectSystem=strict
PrivateNetwork=yes
ReadWritePaths=$(dirname "$METRICS_FILE")
UNIT
  cat >/etc/systemd/system/echelon-metrics.timer <<'UNIT'
[Unit]
Description=Every 30 seconds: metrics of Echelon runs

[Timer]
OnBootSec=30
OnUnitActiveSec=30
AccuracySec=1

[Install]
WantedBy=timers.target
UNIT
  systemctl daemon-reload
  systemctl enable --now echelon-metrics.timer
}

install_monitoring() {
  local archive
  archive=$(mktemp)
  with_retries curl --fail --silent --show-error --location --max-time 120 --output "$archive" \
    "$MONITORING_ARCHIVES/$monitoring.tar.gz" || die $EXIT_ENVIRONMENT "cannot fetch aws-parallelcluster-monitoring $monitoring"
  check_sum "$archive" "$monitoring_sha256"
  mkdir -p "$MONITORING_FOLDER"
  tar -xzf "$archive" -C "$MONITORING_FOLDER" --strip-components=1 --no-same-owner
  rm "$archive"
  # A cluster trains without its dashboards: their failure is told, not fatal.
  bash "$MONITORING_FOLDER/installer/install.sh" || say "warning: aws-parallelcluster-monitoring $monitoring is not installed"
}

say "preparing a $node_type"
case $node_type in
  HeadNode)
    install_packages "${LIBRARY_PACKAGES[@]}" "${COMPILER_PACKAGES[@]}"
    install -d -m 1777 "$RUNS"
    install_exporter
    ;;
  ComputeFleet | LoginNode) install_packages "${LIBRARY_PACKAGES[@]}" ;;
  *) die $EXIT_ENVIRONMENT "/etc/parallelcluster/cfnconfig names no known node type: '$node_type'" ;;
esac
look_at_pmix
[[ -z $monitoring ]] || install_monitoring
say "done"
