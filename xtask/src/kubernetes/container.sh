# Runs Slackwater as a container runs it: a root file system that is read-only and has only its
# mounts, a user without privileges, no capabilities. Arguments: the folder for the root, the
# program, the user, pairs of a folder and where it is mounted, `--`, the program's arguments.
root=$1 program=$2 user=$3
shift 3
mount -t tmpfs -o mode=755 tmpfs "$root"
mkdir -p "$root/usr" "$root/proc" "$root/dev"
mount --rbind /usr "$root/usr"
for folder in bin lib lib64; do
    if [ -L "/$folder" ]; then
        cp -P "/$folder" "$root/$folder"
    elif [ -d "/$folder" ]; then
        mkdir "$root/$folder"
        mount --rbind "/$folder" "$root/$folder"
    fi
done
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/usr/local/bin"
touch "$root/usr/local/bin/slackwater"
mount --bind "$program" "$root/usr/local/bin/slackwater"
while [ "$1" != -- ]; do
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    mount -o remount,ro,bind "$root$2"
    shift 2
done
shift
mount -o remount,ro "$root"
exec chroot "$root" /usr/bin/setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs \
    --bounding-set=-all --inh-caps=-all /usr/local/bin/slackwater "$@"
