func.func @f(%a: tensor<64x1024xf32>) -> tensor<64x1024xf32> { %n = stablehlo.constant dense<0xFF800000> : tensor<f32> %z = stablehlo.constant dense<0.0> : tensor<f32>
 %m = stablehlo.reduce(%a init: %n) applies stablehlo.maximum across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
 %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
 %s = stablehlo.subtract %a, %mb : tensor<64x1024xf32> %e = stablehlo.exponential %s : tensor<64x1024xf32>
 %t = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [1] : (tensor<64x1024xf32>, tensor<f32>) -> tensor<64xf32>
 %tb = stablehlo.broadcast_in_dim %t, dims = [0] : (tensor<64xf32>) -> tensor<64x1024xf32>
 %d = stablehlo.divide %e, %tb : tensor<64x1024xf32> return %d : tensor<64x1024xf32> }