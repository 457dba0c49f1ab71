// expected-error @+1 {{never said}}
func.func @f() {
  func.return
}
