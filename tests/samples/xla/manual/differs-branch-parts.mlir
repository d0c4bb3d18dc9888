module @jit_gathered attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]>
  func.func public @main(%arg0: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {"tp"}]>}) -> (tensor<16x16xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"dp"}, {"tp"}]>] out_shardings=[<@mesh, [{"dp", "tp"}]>] manual_axes={"dp", "tp"} (%arg1: tensor<8x4xf32>) {
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %2 = stablehlo.reduce(%arg1 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
      %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<1x1xf32>
      %4 = stablehlo.slice %3 [0:1, 0:1] : (tensor<1x1xf32>) -> tensor<1x1xf32>
      %5 = stablehlo.reshape %4 : (tensor<1x1xf32>) -> tensor<1xf32>
      sdy.return %5 : tensor<1xf32>
    } : (tensor<16x16xf32>) -> tensor<8xf32>
    %1 = sdy.manual_computation(%arg0, %0) in_shardings=[<@mesh, [{"dp"}, {"tp"}]>, <@mesh, [{"dp", "tp"}]>] out_shardings=[<@mesh, [{"dp"}, {"tp"}]>] manual_axes={"dp", "tp"} (%arg1: tensor<8x4xf32>, %arg2: tensor<1xf32>) {
      %2 = stablehlo.slice %arg2 [0:1] : (tensor<1xf32>) -> tensor<1xf32>
      %3 = stablehlo.reshape %2 : (tensor<1xf32>) -> tensor<f32>
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %4 = stablehlo.compare  GT, %3, %cst,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %5 = stablehlo.convert %4 : (tensor<i1>) -> tensor<i32>
      %6 = "stablehlo.case"(%5) ({
        %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
        %7 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x4xf32>
        %8 = stablehlo.multiply %arg1, %7 : tensor<8x4xf32>
        stablehlo.return %8 : tensor<8x4xf32>
      }, {
        %7 = "stablehlo.all_reduce"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
        ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
          %8 = stablehlo.add %arg3, %arg4 : tensor<f32>
          stablehlo.return %8 : tensor<f32>
        }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
        stablehlo.return %7 : tensor<8x4xf32>
      }) : (tensor<i32>) -> tensor<8x4xf32>
      sdy.return %6 : tensor<8x4xf32>
    } : (tensor<16x16xf32>, tensor<8xf32>) -> tensor<16x16xf32>
    return %1 : tensor<16x16xf32>
  }
}
