func.func @f(%a: i32) {
  func.return %a : i32
}
