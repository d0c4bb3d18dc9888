module @jit_carried attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]>
  func.func public @main(%arg0: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {"tp"}]>}, %arg1: tensor<1xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) -> (tensor<16x16xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"dp"}, {"tp"}]>, <@mesh, [{}]>] out_shardings=[<@mesh, [{"dp"}, {"tp"}]>] manual_axes={"dp", "tp"} (%arg2: tensor<8x4xf32>, %arg3: tensor<1xf32>) {
      %1 = stablehlo.slice %arg3 [0:1] : (tensor<1xf32>) -> tensor<1xf32>
      %2 = stablehlo.reshape %1 : (tensor<1xf32>) -> tensor<f32>
      %3:2 = stablehlo.while(%iterArg = %2, %iterArg_0 = %arg2) : tensor<f32>, tensor<8x4xf32>
      cond {
        %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %4 = stablehlo.compare  GT, %iterArg, %cst,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %4 : tensor<i1>
      } do {
        %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
        %4 = stablehlo.reduce(%iterArg_0 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
        %5 = "stablehlo.all_reduce"(%iterArg_0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
        ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
          %6 = stablehlo.add %arg4, %arg5 : tensor<f32>
          stablehlo.return %6 : tensor<f32>
        }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
        stablehlo.return %4, %5 : tensor<f32>, tensor<8x4xf32>
      }
      sdy.return %3#1 : tensor<8x4xf32>
    } : (tensor<16x16xf32>, tensor<1xf32>) -> tensor<16x16xf32>
    return %0 : tensor<16x16xf32>
  }
}
