#!/bin/busybox sh
# From the kernel to the disk: loads what is needed for that, puts the files of this run there, and leaves the rest to systemd.
B=/bin/busybox
$B mkdir -p /proc /dev /root
$B mount -t proc proc /proc
$B mount -t devtmpfs dev /dev
# Which of them needs which differs from kernel to kernel.
for module in $($B cat /modules/names /modules/names /modules/names); do
    $B insmod /modules/$module 2>/dev/null
done
tries=0
until $B mount -t ext4 -o noatime /dev/vda /root 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { $B lsmod; $B echo "VM 1 there is no disk"; $B poweroff -f; }
    $B usleep 100000
done
$B cp -a /files/. /root/
$B mount --move /dev /root/dev
$B umount /proc
exec $B switch_root /root /sbin/init
