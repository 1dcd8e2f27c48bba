module github.com/pglease/pglease-go

go 1.25.0

require go.uber.org/zap v1.28.0

require go.uber.org/multierr v1.11.0 // indirect
