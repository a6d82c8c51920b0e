"""Counts instructions and calls of running processes under callgrind."""
import collections, glob, re, subprocess

ALLOCATES = re.compile(r"(mi_)?(heap_)?(malloc|calloc|zalloc|realloc|reallocf|rezalloc|recalloc|memalign|posix_memalign|aligned_alloc)(_aligned)?(_at)?(_small)?$")


def under(p, *options):
    """The command line to put before a process's own. Its counts go into its folder, `p.work`."""
    return ["valgrind", "--tool=callgrind", *options, f"--callgrind-out-file={p.work}/callgrind"]


def dump(p):
    """The files with the counts of the process since the last call."""
    before = set(glob.glob(f"{p.work}/callgrind.*"))
    subprocess.run(["callgrind_control", "--dump", str(p.proc.pid)], check=True, capture_output=True)
    return set(glob.glob(f"{p.work}/callgrind.*")) - before


def instructions(p):
    """Instructions of the process since the last call."""
    return sum(int(re.search(r"^(?:totals|summary): (\d+)", open(file).read(), re.M)[1]) for file in dump(p))


def by_function(files):
    """({function: its own instructions}, {function: calls by others than allocators}) in these files."""
    own, calls = collections.Counter(), collections.Counter()
    for file in files:
        names, here, called = {}, "", ""

        def named(text):
            number, _, name = text.partition(" ")
            return names.setdefault(number, name)

        of_a_call = False
        for line in open(file):
            if line.startswith("fn="):
                here = named(line[3:].rstrip("\n"))
            elif line.startswith("cfn="):
                called = named(line[4:].rstrip("\n"))
            elif line.startswith("calls="):
                # The next line is the cost of the call, which the called function has, too.
                of_a_call = True
                if not ALLOCATES.match(here):
                    calls[called] += int(line[6:].split()[0])
            elif line[0] in "+-*0123456789":
                if not of_a_call:
                    own[here] += int(line.split()[-1])
                of_a_call = False
    return own, calls


def allocations(calls):
    """Calls that ask an allocator for memory."""
    return sum(count for name, count in calls.items() if ALLOCATES.match(name))
