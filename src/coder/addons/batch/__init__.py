"""`coder batch`: many tasks at once, on this machine or on a Ray cluster. Imported by the command line only.

What is run, and what comes of it:

    tasks       the task file: lines checked before anything starts, the matrix
    home        the person's modes and skills, which tasks take along
    job         plain data: what a task process is sent, and what it sends back
    results     the files of the output directory: append-only results, attempts, status
    limits      request rates, shared back-off and the budget, for all tasks together

One attempt at a task, the same on both engines:

    attempt     supervise: own directories, a process for the task, removed afterwards whatever happens
    root        the batch's directory on a machine
    fork server     a warm process that forks the task processes and kills what they leave
    runner      inside the task process: check out, set up, one turn of the agent, patch, check
    workspace   the task's own clone, made from a local mirror; its patch
    mirror      the sources of tasks, cloned once on each machine; cut: without what came after a commit
    gate        the model's requests wait here for the limits
    channel     messages between a task process and its supervisor

The batch:

    engine      what an engine must do; `local` (processes) and `cluster` (Ray) do it
    hub         on the cluster: the actor that attempts report to, and the Ray task
    inbox       what attempts report and ask, until the driver has taken it, on either engine
    driver      start, retry, record, stop
    status      what runs and what is done, also from another terminal
    page        `index.html`

Afterwards: `compare` (two batches, with exact intervals from `intervals`).
"""
