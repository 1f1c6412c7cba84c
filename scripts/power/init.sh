#!/bin/busybox sh
# shellcheck shell=dash
# First process of the guest of scripts/power.sh: runs the programs of the first disk and writes to the second disk.
# The kernel passes OPTIONS, the mount options of the second disk, and the variables that the load reads.
busybox=/bin/busybox
export PATH=/bin
$busybox --install -s /bin
mkdir -p /proc /dev
mount -t proc proc /proc
mount -t devtmpfs dev /dev
while read -r module; do
    insmod "$module" || echo "insmod $module failed"
done </modules/order
mount -t ext4 -o ro /dev/vda /guest
mount -t proc proc /guest/proc
mount -t sysfs sys /guest/sys
mount -t devtmpfs dev /guest/dev
mount -t tmpfs tmp /guest/tmp
mount -t tmpfs tmp /guest/work
mkdir /guest/work/root /guest/work/mnt
mount -t ext4 -o "$OPTIONS" /dev/vdb /guest/work/root
ip link set lo up
chroot /guest /usr/bin/tests --nocapture --exact power::guest::works_until_the_power_goes
cat /guest/work/server.log
poweroff -f
