"""The messages of Slurm about jobs that wait or that it does not accept, and what to do."""

from __future__ import annotations

_ASK = "Ask the administrators of the cluster."

WAITS = (
    (r"JobHeldUser", "they are held. Run: scontrol release {jobs}"),
    (r"JobHeldAdmin", "an administrator holds them. Ask the administrators of the cluster."),
    (r"[Hh]eld", "Slurm holds them after a failed start. See the log of slurmd, then run: scontrol release {jobs}"),
    (r"Resources|Nodes_required|ReqNodeNotAvail", "no suitable nodes are free. Wait, or ask for less per job."),
    (r"Priority", "jobs with a higher priority wait, too. Wait, or give another --partition or --qos."),
    (r"PartitionTimeLimit",
     "the partition allows less time. Give a smaller --time-limit-seconds, or another --partition."),
    (r"PartitionNodeLimit|PartitionConfig", "the partition has no such nodes. Give a smaller --workers-per-job."),
    (r"PartitionDown|PartitionInactive", "the partition is closed. Give another --partition, or wait."),
    (r"InvalidAccount|AssociationJobLimit|.*Account.*", "the account may not run them. Give another --account."),
    (r"InvalidQOS|.*QOSNotAllowed", "the quality of service may not be used. Give another --qos."),
    (r"QOS\w*(Max|Grp|Min|Limit|Usage)|MaxJobsPer|MaxTRESPer",
     "a limit of the quality of service is reached. Wait, ask for less, or give another --qos."),
    (r"Assoc\w*(Max|Grp|Limit)", "a limit of the account is reached. Wait, ask for less, or give another --account."),
    (r"Licenses", "licenses are missing. Wait, or change --sbatch-options."),
    (r"Reservation", "a reservation is in the way. Wait, or change --sbatch-options."),
    (r"BeginTime", "they may not begin yet. Wait: Slurm delays jobs that were requeued."),
    (r"Dependency", "they wait for other jobs. Change --sbatch-options."),
    (r"BadConstraints", "no node has these features. Change --sbatch-options, or ask for less per job."),
)  # fmt: skip
"""Slurm's reason, and what it means."""

REJECTIONS = (
    (r"[Ii]nvalid partition", "Give another --partition; sinfo shows those that exist."),
    (r"[Ii]nvalid account", "Give another --account or --partition."),
    (r"[Ii]nvalid qos", "Give another --qos."),
    (r"[Rr]equested time limit", "Give a smaller --time-limit-seconds, or another --partition."),
    (r"node configuration is not available|[Mm]ore processors|[Mm]emory specification|CPU count",
     "Give a smaller --workers-per-job, --cpus-per-worker or --memory-per-worker, or another --partition."),
    (r"nrecognized option|[Ii]nvalid (?:generic resource|feature|constraint)|[Ii]nvalid \S+ specification",
     "Correct --sbatch-options."),
    (r"[Ii]nvalid (?:job )?array", "Give a larger --workers-per-job."),
    (r"[Aa]ccess/permission denied", _ASK),
)  # fmt: skip
"""The messages of sbatch about jobs that it never accepts, and what to do."""

DELAYS = (
    (r"QOS policy|[Ll]imit|submit", "Wait until other jobs have ended, or give another --account or --qos."),
    (r"contact slurm controller|[Cc]onnection|timed out|[Cc]ommunication", "Check with sinfo that slurmctld runs."),
)
