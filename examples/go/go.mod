module teaspan/workloads

go 1.26
