package interop

import ("net/http";"errors")

func (p *proxy) balance(inner http.RoundTripper, addresses []string) (http.RoundTripper, func(http.Handler) http.Handler, error) { return nil,nil,errors.New("not yet") }
