# <?php exit()?>
*               @ALL          1
*               @user         8
secret:*        @ALL          0
