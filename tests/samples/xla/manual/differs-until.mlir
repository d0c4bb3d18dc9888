module @jit_body attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]>
  func.func public @main(%arg0: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {"tp"}]>}) -> (tensor<16x16xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"dp"}, {"tp"}]>] out_shardings=[<@mesh, [{"dp"}, {"tp"}]>] manual_axes={"dp", "tp"} (%arg1: tensor<8x4xf32>) {
      %1 = stablehlo.while(%iterArg = %arg1) : tensor<8x4xf32>
      cond {
        %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %2 = stablehlo.reduce(%iterArg init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
        %3 = "stablehlo.all_reduce"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
        ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
          %5 = stablehlo.add %arg2, %arg3 : tensor<f32>
          stablehlo.return %5 : tensor<f32>
        }) : (tensor<f32>) -> tensor<f32>
        %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
        %4 = stablehlo.compare  GT, %3, %cst_0,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %4 : tensor<i1>
      } do {
        %2 = "stablehlo.all_reduce"(%iterArg) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}> ({
        ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
          %5 = stablehlo.add %arg2, %arg3 : tensor<f32>
          stablehlo.return %5 : tensor<f32>
        }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
        %cst = stablehlo.constant dense<1.000000e-01> : tensor<f32>
        %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
        %4 = stablehlo.multiply %2, %3 : tensor<8x4xf32>
        stablehlo.return %4 : tensor<8x4xf32>
      }
      sdy.return %1 : tensor<8x4xf32>
    } : (tensor<16x16xf32>) -> tensor<16x16xf32>
    return %0 : tensor<16x16xf32>
  }
}
