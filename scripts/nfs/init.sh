#!/bin/busybox sh
# shellcheck shell=dash
# In `a && b || fail`, `fail` must run for both, and it ends the machine.
# shellcheck disable=SC2015
# First process of the guest of scripts/nfs/guest.sh: mounts the server at PORT of the host and uses files there.
# The kernel passes PORT, and WORK to select another test than the default one.
busybox=/bin/busybox
export PATH=/bin
$busybox --install -s /bin
mkdir -p /proc /sys /dev /tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
while read -r module; do
    insmod "$module" || echo "insmod $module failed"
done </modules/order
ip link set lo up
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0

fail() {
    echo "guest: failed: $*"
    poweroff -f
}

# The server is killed while a file is written. The client sends the uncommitted writes again to the new server, and
# programs see no error.
if [ "$WORK" = restart ]; then
    # No caches, and early writeback: some writes reach the server before it is killed.
    options="vers=3,proto=tcp,mountproto=tcp,port=$PORT,mountport=$PORT,nolock,hard,actimeo=0,lookupcache=none"
    mount.nfs 10.0.2.2:/ /mnt -o "$options" || fail mount
    echo 65536 >/proc/sys/vm/dirty_background_bytes
    echo 20 >/proc/sys/vm/dirty_writeback_centisecs
    cd /mnt || fail cd
    dd if=/dev/urandom of=/tmp/big bs=64k count=64 2>/dev/null
    echo "# Before" >before.md || fail before
    exec 4>half.bin
    dd if=/tmp/big bs=64k count=32 >&4 2>/dev/null || fail "the first half"
    exec 5<before.md
    echo "guest: kill the server"
    until [ -e after.md ]; do sleep 1; done
    dd if=/tmp/big bs=64k skip=32 count=32 >&4 2>/dev/null || fail "the second half"
    # close waits until the server has committed everything.
    exec 4>&- || fail close
    read -r line <&5 && [ "$line" = "# Before" ] || fail "a file that was open"
    exec 5<&-
    echo 3 >/proc/sys/vm/drop_caches
    cmp /tmp/big half.bin || fail "what was written before the server died"
    echo more >>before.md || fail "append after"
    cd / && umount /mnt || fail umount
    echo "guest: all is well"
    poweroff -f
fi

# pjdfstest; scripts/nfs/pjdfstest.sh adds it to this machine.
if [ "$WORK" = pjdfstest ]; then
    mount.nfs 10.0.2.2:/ /mnt -o "vers=3,proto=tcp,mountproto=tcp,port=$PORT,mountport=$PORT,nolock,hard" || fail mount
    mkdir -m 777 /mnt/suite || fail mkdir
    pjdfstest -c /etc/pjdfstest.toml -p /mnt/suite
    echo "guest: all is done"
    poweroff -f
fi

# The default test. `a_kernel_mounts_what_is_served_and_programs_work_there` checks the last line of the output.
mount.nfs 10.0.2.2:/ /mnt -o "vers=3,proto=tcp,mountproto=tcp,port=$PORT,mountport=$PORT,nolock,hard" || fail mount
cd /mnt || fail cd
echo "# From the kernel" >kernel.md || fail write
echo more >>kernel.md || fail append
[ "$(cat kernel.md)" = "# From the kernel
more" ] || fail read
mkdir -p deep/er && cp kernel.md deep/er/copy.md && mv deep/er/copy.md deep/moved.md || fail rename
rmdir deep/er || fail rmdir
ln -s kernel.md link.md && [ "$(readlink link.md)" = kernel.md ] && cmp link.md deep/moved.md || fail symlink
dd if=/dev/urandom of=/tmp/big bs=1M count=8 2>/dev/null && cp /tmp/big big.bin && cmp /tmp/big big.bin || fail large
truncate -s 5 big.bin && [ "$(wc -c <big.bin)" = 5 ] || fail truncate
dd if=/tmp/big of=big.bin bs=1 seek=100 count=10 conv=notrunc 2>/dev/null && [ "$(wc -c <big.bin)" = 110 ] || fail hole
mkdir many || fail mkdir
number=0
while [ $number -lt 200 ]; do
    echo $number >many/$number.md || fail many
    number=$((number + 1))
done
[ "$(find many -type f | wc -l)" = 200 ] || fail list
rm -r many || fail "remove many"
chmod 600 kernel.md && [ "$(stat -c %a kernel.md)" = 600 ] || fail chmod
touch -d '2020-01-01 00:00:00' kernel.md && [ "$(stat -c %Y kernel.md)" = 1577836800 ] || fail touch
exec 5<deep/moved.md
rm deep/moved.md && read -r line <&5 && [ "$line" = "# From the kernel" ] || fail "a file that is open and removed"
exec 5<&-
rmdir deep || fail "an empty directory"
[ "$(df . | tail -n 1 | awk '{ print $2 }')" -gt 0 ] || fail df
mkdir .git 2>/dev/null && fail ".git can be created"
ls .git >/dev/null 2>&1 && fail ".git is visible"
cd / && umount /mnt || fail umount
echo "guest: all is well"
poweroff -f
