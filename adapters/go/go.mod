module maitred

go 1.19
