"""Block datasets: Arrow IPC files striped over disks, written once, read for ever."""
