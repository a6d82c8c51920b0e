module github.com/slackwater/slackwater/go

go 1.25.0
